/** A worker that counts time for its tab: its timers keep running when the tab is hidden. */

/** One timer: `id` is sent back after that many milliseconds. */
export interface Alarm {
  readonly id: number
  readonly milliseconds: number
}

self.addEventListener('message', ({ data }: MessageEvent<Alarm>) => {
  setTimeout(() => self.postMessage(data.id), data.milliseconds)
})
