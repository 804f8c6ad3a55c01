/** A worker with timers for its tab. They keep running when the tab is hidden. */

/** One timer. `id` is sent back after this many milliseconds. */
export interface TimerRequest {
  readonly id: number
  readonly milliseconds: number
}

self.addEventListener('message', ({ data }: MessageEvent<TimerRequest>) => {
  setTimeout(() => self.postMessage(data.id), data.milliseconds)
})
self.postMessage('started')
