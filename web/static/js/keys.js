// Shows a key that was just made, once, and copies it.
"use strict";

(() => {
  const place = document.getElementById("made");
  const key = document.getElementById("made-key");
  const copied = document.getElementById("copied");

  document.getElementById("new-key").addEventListener("ddlp:sent", (sent) => {
    document.getElementById("made-name").textContent = sent.detail.name;
    key.textContent = sent.detail.key;
    copied.textContent = "";
    sent.target.reset();
    place.hidden = false;
    place.focus();
    window.htmx.ajax("GET", "/keys", { target: "#keys", select: "#keys", swap: "outerMorph" });
  });

  const select = () => {
    getSelection().selectAllChildren(key);
    copied.textContent = "Selected: copy it by hand.";
  };
  document.getElementById("copy-key").addEventListener("click", async () => {
    // Browsers let pages write to the clipboard on loopback and over https only.
    if (!navigator.clipboard) return select();
    try {
      await navigator.clipboard.writeText(key.textContent);
      copied.textContent = "Copied.";
    } catch {
      select();
    }
  });
})();
