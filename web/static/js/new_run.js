// The form for a new run: presets, fields that suit the strategy, and one preview picture at a time.
"use strict";

(() => {
  const form = document.getElementById("new-run");
  const pictures = document.getElementById("pictures");
  const next = document.getElementById("next-epochs");
  let epoch = Number(new URLSearchParams(location.search).get("epoch") ?? 0);

  // The reorder window is bounded's alone; a field that is disabled is neither sent nor checked.
  const suit = () => { form.elements.reorder_window.disabled = form.elements.strategy.value !== "bounded"; };
  form.addEventListener("change", suit);
  suit();

  document.querySelectorAll("[data-preset]").forEach((link) => link.addEventListener("click", (click) => {
    click.preventDefault();
    for (const [name, value] of Object.entries(JSON.parse(link.dataset.preset))) form.elements[name].value = value;
    form.dispatchEvent(new Event("change", { bubbles: true }));
  }));

  // What is wrong with a field is said beside it by the server's answer; here the field itself is marked.
  const mark = () => document.querySelectorAll(".wrong[id]").forEach((place) => {
    document.getElementById(place.id.replace("wrong-", "field-"))?.setAttribute("aria-invalid", String(place.textContent !== ""));
  });

  // Pictures: the second sheet once the first is there; what is wanted meanwhile waits, the newest only.
  let busy = false;
  let wanted = null;
  const loaded = (image) => image.complete && image.currentSrc ? Promise.resolve() : new Promise((resolve) => {
    image.addEventListener("load", resolve, { once: true });
    image.addEventListener("error", resolve, { once: true });
  });
  const show = async () => {
    if (busy) return;
    busy = true;
    while (true) {
      for (const image of pictures.querySelectorAll("img")) {
        if (wanted) break;
        if (image.dataset.src) { image.src = image.dataset.src; image.removeAttribute("data-src"); }
        await loaded(image);
      }
      if (!wanted) break;
      pictures.replaceChildren(wanted);
      wanted = null;
      window.htmx.process(pictures);
    }
    busy = false;
  };
  const keyOf = (part) => part.querySelector(".sheets")?.dataset.key;
  const take = (template) => {
    const part = template.content.cloneNode(true);
    const following = part.querySelector(".sheets")?.dataset.following;
    next.hidden = !following;
    if (following) next.href = following;
    if (keyOf(part) === (wanted ? keyOf(wanted) : keyOf(pictures))) return;
    wanted = part;
    show();
  };

  const settle = () => {
    mark();
    const template = document.getElementById("wanted-preview");
    if (template) take(template);
  };
  document.addEventListener("htmx:after:swap", settle);

  next.addEventListener("click", async (click) => {
    click.preventDefault();
    epoch += 1;
    const query = new URLSearchParams(new FormData(form));
    query.set("epoch", epoch);
    const answer = await fetch(`/runs/new/check?${query}`);
    if (!answer.ok) return;
    const parsed = new DOMParser().parseFromString(await answer.text(), "text/html");
    take(parsed.getElementById("wanted-preview"));
  });
  document.getElementById("check").addEventListener("htmx:config:request", () => { epoch = 0; });
  show();
})();
