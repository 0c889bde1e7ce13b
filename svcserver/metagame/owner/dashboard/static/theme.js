// Applies the chosen colours before the page is drawn: light, dark, or those of the system.
const THEME = "svc-dashboard-theme";
const systemDark = matchMedia("(prefers-color-scheme: dark)");

function applyTheme() {
  document.documentElement.dataset.theme = localStorage.getItem(THEME) ?? (systemDark.matches ? "dark" : "light");
  dispatchEvent(new Event("theme"));
}

systemDark.addEventListener("change", applyTheme);
addEventListener("storage", applyTheme); // chosen on another page of this browser
applyTheme();
