// A recording: the same lines as of a stream, played by the clock of the reader.

import { clock } from './model.js';

/** Replay plays frames into models that begin makes, and shows them by draw. */
export class Replay {
  constructor(frames, { begin, take, draw }) {
    Object.assign(this, { frames, begin, take, draw, at: -1, playing: true });
    let time = 0;
    this.times = frames.map((f) => (time = Math.max(time, Date.parse(f.at ?? f.set?.at) || 0)));
    const element = (id) => document.getElementById(id);
    Object.assign(this, { play: element('play'), seek: element('seek'), moment: element('moment'), speed: element('speed') });
    element('replay').hidden = false;
    element('replay').addEventListener('submit', (event) => event.preventDefault());
    this.seek.max = frames.length - 1;
    this.seek.addEventListener('input', () => {
      this.stop();
      this.show(Number(this.seek.value));
    });
    this.play.addEventListener('click', () => (this.playing ? this.stop() : this.go()));
    this.speed.addEventListener('change', () => this.playing && this.go());
    this.show(0);
    this.go();
  }

  /** show brings the model to one frame, from the beginning if that is behind. */
  show(frame) {
    if (frame < this.at) {
      this.begin();
      this.at = -1;
    }
    while (this.at < frame) this.take(this.frames[++this.at]);
    this.seek.value = frame;
    const text = `${clock(this.times[frame])}, ${frame + 1} of ${this.frames.length}`;
    this.moment.value = text;
    this.seek.setAttribute('aria-valuetext', text);
    this.draw();
  }

  go() {
    clearTimeout(this.timer);
    if (this.at === this.frames.length - 1) {
      if (!this.playing) this.show(0);
      else return this.stop();
    }
    this.playing = true;
    this.play.textContent = 'Pause';
    const pause = Math.max(this.times[this.at + 1] - this.times[this.at], 0) || 0;
    this.timer = setTimeout(() => {
      this.show(this.at + 1);
      this.go();
    }, Math.min(pause, 10000) / Number(this.speed.value));
    return undefined;
  }

  stop() {
    clearTimeout(this.timer);
    this.playing = false;
    this.play.textContent = 'Play';
  }
}
