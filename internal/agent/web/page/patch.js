// JSON merge patches (RFC 7396): the changed members of an object, and null for each that is gone.

const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);

/** merge returns a value with its changes. The value itself stays as it is. */
export function merge(value, changes) {
  if (!isObject(changes)) return changes;
  const next = isObject(value) ? { ...value } : {};
  for (const [key, change] of Object.entries(changes)) {
    if (change === null) delete next[key];
    else if (isObject(change) || key === '__proto__') {
      const merged = merge(Object.hasOwn(next, key) ? next[key] : undefined, change);
      Object.defineProperty(next, key, { value: merged, configurable: true, enumerable: true, writable: true });
    } else next[key] = change;
  }
  return next;
}
