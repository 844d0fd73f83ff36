// The stream: a whole view, then once a second a line of what changed, for as long as who says it
// is there, the agent of a node or berth web. It comes by fetch.

const silence = 10000; // after which it is taken for gone
const longest = 5000; // between two tries

const sleep = (time) => new Promise((done) => { setTimeout(done, time); });

/**
 * follow hands each line to take, and tells lost why there is none, until a recording has
 * come: that one it returns, as all its lines.
 */
export async function follow(take, lost, who = 'The agent') {
  for (let pause = 1000; ; pause = Math.min(pause * 2, longest)) {
    const line = (text) => {
      pause = 500;
      take(text);
    };
    try {
      const recording = await read(line);
      if (recording) return recording;
      lost(`${who} ended`);
    } catch (error) {
      lost(error.name === 'AbortError' ? `${who} is silent` : error.said || `${who} does not answer`);
    }
    await sleep(pause);
  }
}

/** recalled is what the agent kept of a workload, or of all, from before the page was opened; null for nothing. */
export async function recalled(workload) {
  const query = workload === undefined ? '' : `?workload=${encodeURIComponent(workload)}`;
  try {
    const response = await fetch(`api/v1/history${query}`, { cache: 'no-store', signal: AbortSignal.timeout(silence) });
    return response.ok ? await response.json() : null;
  } catch {
    return null; // the page goes on from now
  }
}

/** read reads one stream to its end. */
async function read(take) {
  const abort = new AbortController();
  let timer;
  const heard = () => {
    clearTimeout(timer);
    timer = setTimeout(() => abort.abort(), silence);
  };
  heard();
  try {
    const response = await fetch('api/v1/stream?patches', { cache: 'no-store', signal: abort.signal });
    if (!response.ok) throw Object.assign(new Error('refused'), { said: (await response.text()).trim() });
    const recorded = response.headers.has('Berth-Recording') ? [] : null;
    await lines(response.body.getReader(), heard, (text) => {
      const value = JSON.parse(text);
      if (recorded) recorded.push(value);
      else take(value);
    });
    return recorded;
  } finally {
    clearTimeout(timer);
    abort.abort(); // the agent has a place for another reader
  }
}

/** lines hands each line of a body to take. */
async function lines(reader, heard, take) {
  const decoder = new TextDecoder();
  let begun = [];
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    heard();
    const parts = decoder.decode(value, { stream: true }).split('\n');
    for (const part of parts.slice(0, -1)) {
      take(begun.join('') + part);
      begun = [];
    }
    begun.push(parts.at(-1));
  }
}
