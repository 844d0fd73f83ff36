// Elements. Whatever comes from the agent becomes the text of a node, and nothing else.

/** make returns an element with attributes, and with texts or elements in it. */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.filter((child) => child !== undefined && child !== null));
  return element;
}

/** draw returns an element of an image. */
export function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/**
 * write sets a text unless the element has it already: the browser does not draw an unchanged text
 * again. It replaces elements in the element even if their text is the same.
 */
export function write(element, text) {
  if (element.textContent !== text || element.firstElementChild) element.textContent = text;
}

/** mark sets an attribute, if it is another one; undefined takes it away. */
export function mark(element, name, value) {
  if (value === undefined) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

/**
 * list keeps a child for each item, by its key: what stays is brought up to date in its place,
 * so that focus and reading position stay, too.
 */
export function list(parent, items, key, create, update) {
  const before = new Map([...parent.children].map((child) => [child.key, child]));
  let next = parent.firstElementChild;
  for (const item of items) {
    const name = key(item);
    let child = before.get(name);
    if (child) before.delete(name);
    else {
      child = create(item);
      child.key = name;
    }
    if (update) update(child, item);
    if (child === next) next = next.nextElementSibling;
    else parent.insertBefore(child, next);
  }
  for (const gone of before.values()) gone.remove();
}

/**
 * roam makes one of many elements reachable by Tab, and the others by the keys that step
 * returns an element for.
 */
export function roam(parent, selector, step) {
  let current;
  const enter = (element) => {
    if (current && current !== element) current.tabIndex = -1;
    current = element;
    element.tabIndex = 0;
  };
  parent.addEventListener('focusin', (event) => {
    const element = event.target.closest(selector);
    if (element) enter(element);
  });
  parent.addEventListener('keydown', (event) => {
    const element = event.target.closest(selector);
    const next = element && !event.altKey && !event.ctrlKey && !event.metaKey && step(element, event.key);
    if (!next) return;
    event.preventDefault();
    next.focus();
  });
  return () => { // after the elements changed
    const first = parent.querySelector(selector);
    if (first && !(current && parent.contains(current))) enter(first);
  };
}
