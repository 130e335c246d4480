document.querySelectorAll(".copy").forEach((button) => {
  if (!navigator.clipboard) return;
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.previousElementSibling.textContent);
    const text = button.textContent;
    button.textContent = "✓";
    setTimeout(() => { button.textContent = text; }, 1500);
  });
});
const all = document.getElementById("all");
if (all) {
  all.hidden = false;
  all.addEventListener("click", () => {
    const open = !all.dataset.opened;
    document.querySelectorAll("details.card").forEach((card) => { card.open = open; });
    [all.textContent, all.dataset.close] = [all.dataset.close, all.textContent];
    all.dataset.opened = open ? "yes" : "";
  });
}
const unfold = () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target && target.tagName === "DETAILS") target.open = true;
};
addEventListener("hashchange", unfold);
unfold();
