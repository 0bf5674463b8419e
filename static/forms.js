// Copying a table as markdown, jumping to the line of a fault, choosing a file for the form.

export function copyButtons() {
  if (!navigator.clipboard) return;
  for (const button of document.querySelectorAll("[data-copy]")) {
    button.hidden = false;
    const said = button.firstElementChild;
    const words = said.textContent;
    button.addEventListener("click", async () => {
      try {
        const answer = await fetch(button.dataset.copy);
        if (!answer.ok) throw new Error(answer.statusText);
        await navigator.clipboard.writeText(await answer.text());
        said.textContent = "Copied";
      } catch {
        said.textContent = "Not copied";
      }
      setTimeout(() => (said.textContent = words), 2000);
    });
  }
}

export function faultLines() {
  const area = document.querySelector("textarea[name=scenario]");
  for (const link of document.querySelectorAll("[data-line]")) {
    link.addEventListener("click", () => {
      const before = area.value.split("\n").slice(0, Number(link.dataset.line) - 1);
      const start = before.join("\n").length + (before.length ? 1 : 0);
      const end = area.value.indexOf("\n", start);
      area.focus();
      area.setSelectionRange(start, end < 0 ? area.value.length : end);
      area.scrollTop = Math.max(0, (before.length - 4) * 19.5);
    });
  }
}

export function fileChoice() {
  const place = document.querySelector(".file-choice");
  if (!place) return;
  place.hidden = false;
  place.querySelector("input").addEventListener("change", async (event) => {
    const file = event.target.files[0];
    if (file) document.querySelector("textarea[name=scenario]").value = await file.text();
  });
}
