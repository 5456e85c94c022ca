// Shows the copy buttons, which are hidden without JavaScript. A button copies the text of the
// element that its attribute data-copy names.
for (const button of document.querySelectorAll("button[data-copy]")) {
  const source = document.getElementById(button.dataset.copy);
  const label = button.textContent;
  button.hidden = false;
  button.addEventListener("click", async () => {
    const text = source.value ?? source.textContent.trim();
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // pages without HTTPS have no navigator.clipboard
      const field = document.createElement("textarea");
      field.value = text;
      source.after(field);
      field.select();
      document.execCommand("copy");
      field.remove();
      button.focus();
    }
    button.textContent = button.dataset.copied;
    setTimeout(() => { button.textContent = label; }, 3000);
  });
}
