// uPlot formats numbers for the browser's language, which is no valid tag in a C locale ("en-US@posix").
try {
  new Intl.NumberFormat(navigator.language);
} catch {
  Object.defineProperty(navigator, "language", { value: new Intl.NumberFormat().resolvedOptions().locale });
}
