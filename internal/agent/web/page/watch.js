// What is said when the modules of the page do not come: they draw all else, and a browser leaves
// all of them out for one. This script is none of them.

/** fail says it in the place of how new the page is. */
function fail() {
  const state = document.getElementById('state');
  document.getElementById('stalled')?.remove();
  state.className = 'state lost';
  state.textContent = 'A script of this page was not loaded. Load the page again.';
}

// An error of a script that is loaded goes to its element, and does not bubble.
addEventListener('error', (event) => {
  if (event.target instanceof HTMLScriptElement) fail();
}, true);
