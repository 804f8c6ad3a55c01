import { effect, signal, type ReadonlySignal } from '@preact/signals'
import type { Connection as Channels } from '@watchfire/client/connection'
import { canAppend, type OpenPages, type OpenPage } from './open-pages.ts'
import { ScreenWakeLock } from './screen-wake-lock.ts'
import { followStops, type Stop } from './stopped-tab.ts'

/** Whether this is a phone or tablet. */
export const isPhone = matchMedia('(pointer: coarse)').matches

/** Whether the person wants the screen to stay on while pages are loaded and served. */
export const isKeepAwakeOn = signal(true)

/** Whether the browser stopped this tab in the background, and whether it is connected since. */
export const stop = signal<ReadonlySignal<Stop>>(signal('none'))

const wakeLock = new ScreenWakeLock({
  // Absent when the page did not come over HTTPS.
  locks: (navigator as { wakeLock?: WakeLock }).wakeLock ?? null,
  isVisible: () => document.visibilityState === 'visible',
})

export const canKeepAwake = isPhone && wakeLock.isPossible

const followed = new WeakSet<OpenPages>()

/** Keeps a phone's screen on while its tab loads or serves pages, and follows its stops, from the first page on. */
export function keepAwakeFor(openPages: OpenPages, channels: Promise<Channels>): void {
  if (followed.has(openPages)) return
  followed.add(openPages)
  effect(() => wakeLock.setWanted(canKeepAwake && isKeepAwakeOn.value && openPages.list.value.some(isBusy)))
  document.addEventListener('visibilitychange', () => wakeLock.update())
  stop.value = followStops(document, () => channels.then((connection) => connection.verify()))
}

/** Whether the page is loading, or is served to viewers or to people that its holder waits for. */
export function isBusy({ session, isOwn, keepChoice }: OpenPage): boolean {
  const { kind } = session.state.value
  if (kind === 'loading') return true
  return (
    kind === 'held' &&
    session.have.value === 'all' &&
    (isOwn || canAppend(session) || keepChoice.value === true || (session.counts.value?.watching ?? 1) > 1)
  )
}
