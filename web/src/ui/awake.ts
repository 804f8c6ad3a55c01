import { effect, signal } from '@preact/signals'
import type { Hearth, KeptPage } from './hearth.ts'
import { Wakefulness } from './wakefulness.ts'

/** Whether this is a device that sleeps in its owner's pocket. */
export const isPhone = matchMedia('(pointer: coarse)').matches

/** Whether its owner wants the screen to stay on while pages are fetched and served. */
export const wishesAwake = signal(true)

/** Whether the browser stopped this tab while it lay in the background. */
export const wasStopped = signal(false)

const wakefulness = new Wakefulness({
  // Absent where the page did not come over HTTPS.
  locks: (navigator as { wakeLock?: WakeLock }).wakeLock ?? null,
  isVisible: () => document.visibilityState === 'visible',
})

export const canStayAwake = isPhone && wakefulness.isPossible

const followed = new WeakSet<Hearth>()

/** Keeps a phone's screen on while its tab fetches or serves pages; from the first page on. */
export function stayAwakeFor(hearth: Hearth): void {
  if (followed.has(hearth)) return
  followed.add(hearth)
  effect(() => wakefulness.want(canStayAwake && wishesAwake.value && hearth.kept.value.some(isBusy)))
  document.addEventListener('visibilitychange', () => wakefulness.look())
  document.addEventListener('resume', () => (wasStopped.value = true))
}

/** Whether it comes, or is there for others: for those who watch it, or those its keeper waits for. */
export function isBusy({ session, ours, wish }: KeptPage): boolean {
  const { kind } = session.state.value
  if (kind === 'loading') return true
  return kind === 'held' && (ours || wish.value === true || (session.counts.value?.watching ?? 1) > 1)
}
