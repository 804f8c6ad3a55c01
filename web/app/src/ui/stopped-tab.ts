import { signal, type ReadonlySignal } from '@preact/signals'

/**
 * Whether the browser has stopped this tab in the background. `checking`: it runs again, but whether it is connected is
 * not known yet. `over`: the server has answered since.
 */
export type Stop = 'none' | 'checking' | 'over'

/**
 * Follows the stops of a tab, which end with a `resume` event of its document. `verify` resolves when the server has
 * answered.
 */
export function followStops(page: EventTarget, verify: () => Promise<void>): ReadonlySignal<Stop> {
  const stop = signal<Stop>('none')
  let count = 0
  page.addEventListener('resume', () => {
    const now = ++count
    stop.value = 'checking'
    // An answer from before the latest stop says nothing.
    verify().then(
      () => (stop.value = now === count ? 'over' : stop.value),
      () => undefined,
    )
  })
  return stop
}
