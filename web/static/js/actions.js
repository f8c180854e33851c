// Buttons and forms with data-send call the REST API; what is refused is said, what destroys is asked about first.
"use strict";

(() => {
  const notices = document.getElementById("notices");

  const notify = (words, kind = "bad") => {
    const note = document.createElement("p");
    note.className = `notice ${kind}`;
    note.textContent = words;
    notices.append(note);
    setTimeout(() => note.remove(), 8000);
  };

  const ask = (words, yes) => new Promise((resolve) => {
    const dialog = document.getElementById("confirm");
    const answer = (value) => { dialog.close(); resolve(value); };
    dialog.querySelector("#confirm-words").textContent = words;
    const agree = dialog.querySelector("#confirm-yes");
    agree.textContent = yes;
    agree.onclick = () => answer(true);
    dialog.querySelector("#confirm-no").onclick = () => answer(false);
    dialog.oncancel = () => resolve(false);
    dialog.showModal();
    dialog.querySelector("#confirm-no").focus();
  });

  const valueOf = (field) => {
    if (field.dataset.boolean !== undefined) return field.value === "true";
    if (field.type !== "number" && field.dataset.number === undefined) return field.value;
    const [scale, number] = [Number(field.dataset.scale ?? 1), Number(field.value)];
    if (scale !== 1) return Math.round(number * scale);
    // A whole number that JavaScript would round goes as it was typed.
    return Number.isInteger(number) && !Number.isSafeInteger(number) ? JSON.rawJSON(field.value) : number;
  };

  // What a form says, as JSON: numbers and ticks as such; what is empty is left out, or null (data-empty="null"). A field may count only beside another one's
  // value (data-when="strategy=bounded"), and a form may send only what was changed (data-changed).
  const counts = (form, field) => {
    const [name, value] = (field.dataset.when ?? "").split("=");
    if (name && form.elements[name].value !== value) return false;
    return !form.hasAttribute("data-changed") || field.value !== field.defaultValue;
  };
  const bodyOf = (form) => {
    const body = {};
    for (const field of form.elements) {
      if (!field.name || field.disabled || field.type === "submit" || !counts(form, field)) continue;
      if (field.type === "radio" && !field.checked) continue;
      if (field.type === "checkbox" && field.dataset.list !== undefined) {
        if (field.checked) (body[field.name] ??= []).push(field.value);
      } else if (field.type === "checkbox") body[field.name] = field.checked;
      else if (field.value !== "") body[field.name] = valueOf(field);
      else if (field.dataset.empty === "null") body[field.name] = null;
    }
    return body;
  };

  // A field that counts beside another value only rests without it, and a form that sends only changes has a button only once there are some.
  const settle = () => {
    document.querySelectorAll("form [data-when]").forEach((field) => {
      const [name, value] = field.dataset.when.split("=");
      field.disabled = field.form.elements[name].value !== value;
    });
    document.querySelectorAll("form[data-changed]").forEach((form) => {
      const changed = [...form.elements].some((field) => field.name && field.value !== field.defaultValue);
      form.querySelectorAll("button").forEach((button) => { button.disabled = !changed; });
    });
  };

  const follow = (then, answer) => {
    if (then === "reload") location.reload();
    else if (then) location.assign(then.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(answer[name])));
  };

  const complain = (source, words) => {
    const place = source.tagName === "FORM" ? source.querySelector(".problem") : null;
    if (!place) return notify(words);
    place.textContent = words;
    place.hidden = false;
  };

  // What makes something is made once, however often it is sent until an answer is here: the same request is sent with the same key.
  const keys = new Map();
  const keyOf = (request) => {
    // Not randomUUID: that is there only over TLS and on this machine.
    const bytes = () => [...crypto.getRandomValues(new Uint8Array(16))];
    if (!keys.has(request)) keys.set(request, bytes().map((byte) => byte.toString(16).padStart(2, "0")).join(""));
    return keys.get(request);
  };

  const parsed = (words) => {
    try { return JSON.parse(words); } catch { return {}; }
  };

  const send = async (source, body) => {
    // Not source.dataset: in a form that has a field of that name, that is the field.
    const said = (name) => source.getAttribute(`data-${name}`);
    const [method, address] = said("send").split(" ");
    const [question, confirmWord, then, done] = ["confirm", "confirm-word", "then", "done"].map(said);
    if (question && !(await ask(question, confirmWord ?? "Yes"))) return;
    const buttons = source.tagName === "FORM" ? source.querySelectorAll("button") : [source];
    buttons.forEach((button) => { button.disabled = true; });
    source.querySelector?.(".problem")?.replaceChildren();
    try {
      const [text, headers] = [JSON.stringify(body), { "Content-Type": "application/json" }];
      const request = `${method} ${address} ${text}`;
      if (method === "POST") headers["Idempotency-Key"] = keyOf(request);
      const reply = await fetch(address, { method, headers, body: text });
      const answer = parsed(await reply.text());
      if (reply.status < 500) keys.delete(request);
      if (!reply.ok) return complain(source, answer.detail ?? `The server answered ${reply.status}.`);
      if (done) notify(done.replace(/\{(\w+)\}/g, (_, name) => answer[name] ?? ""), "good");
      if (source.hasAttribute("data-clear")) source.reset();
      if (source.hasAttribute("data-changed")) [...source.elements].forEach((field) => { field.defaultValue = field.value; });
      source.dispatchEvent(new CustomEvent("ddlp:sent", { bubbles: true, detail: answer }));
      follow(then, answer ?? {});
    } catch {
      complain(source, "The server does not answer; try again when it is back.");
    } finally {
      buttons.forEach((button) => { button.disabled = false; });
      settle();
    }
  };

  document.addEventListener("click", (click) => {
    const close = click.target.closest("[data-close]");
    if (close) close.closest("dialog").close();
    const button = click.target.closest("button[data-send]");
    if (button) send(button, JSON.parse(button.dataset.body ?? "{}"));
  });
  document.addEventListener("submit", (submit) => {
    const form = submit.target.closest("form[data-send]");
    if (!form) return;
    submit.preventDefault();
    send(form, bodyOf(form));
  });

  document.addEventListener("input", settle);
  document.addEventListener("htmx:after:swap", settle);
  settle();

  // Where a form narrows a list down, the address says what is shown, so that it can be kept, sent and loaded again.
  document.addEventListener("htmx:after:swap", (event) => {
    const form = event.detail?.ctx?.sourceElement ?? event.target;
    const place = form.getAttribute?.("data-address");
    if (!place) return;
    const given = [...new FormData(form)].filter(([, value]) => value !== "");
    history.replaceState(null, "", given.length ? `${place}?${new URLSearchParams(given)}` : place);
  });

  // Whatever is fetched again by itself says when the server is away, and when it is back; or that it asks for a key again.
  const offline = document.getElementById("offline");
  const signedOut = document.getElementById("signed-out");
  const away = (is) => { offline.hidden = !is; };
  const refused = (status) => { signedOut.hidden = status !== 401; };
  document.addEventListener("htmx:sse:error", (event) => {
    const status = event.detail?.status;
    away(!status);
    refused(status);
  });
  document.addEventListener("htmx:sse:after:connection", () => away(false));
  document.addEventListener("htmx:error", (event) => { if (!event.detail?.ctx?.response) away(true); });
  document.addEventListener("htmx:after:request", (event) => {
    away(false);
    refused(event.detail?.ctx?.response?.status);
  });

  // What asks again every few seconds rests while nobody looks.
  document.addEventListener("htmx:before:request", (event) => {
    if (event.target.id === "poll" && document.hidden) event.preventDefault();
  });

  window.ddlp = { notify, ask, settle };
})();
