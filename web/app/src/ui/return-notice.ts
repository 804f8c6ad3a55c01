import { effect } from '@preact/signals'
import { answerShows } from '../service-worker/show-tab.ts'
import type { PageSession } from './site.ts'

/** The longest wait for the worker once the page is back. Some browsers never answer, such as with a full or damaged profile. */
const WORKER_TIMEOUT_MS = 3000

/** Whether the browser has notifications, and the person has not refused them here. */
export function canNotify(): boolean {
  return typeof Notification === 'function' && Notification.permission !== 'denied'
}

/**
 * Shows a notification as soon as somebody has the page again, while this tab is open. A click on it brings this tab to the front.
 * Returns whether the person allows it. The browser asks, so this must be called for a click.
 */
export async function notifyWhenBack(session: Pick<PageSession, 'cid' | 'state'>, title: string, body: string): Promise<boolean> {
  if ((await Notification.requestPermission()) !== 'granted') return false
  // Registered now, because later the server may be unreachable.
  const worker = registerWorker()
  const address = location.href
  const stop = effect(() => {
    const { kind } = session.state.value
    if (kind === 'joining' || kind === 'waiting') return
    if (kind !== 'refused') void show(worker, title, { body, tag: session.cid, icon: '/icon-192.png', data: address })
    // The effect may run before `stop` is assigned.
    queueMicrotask(() => stop())
  })
  return true
}

/** The service worker of the app once it is active, which is told of a click; `null` where there is none. */
async function registerWorker(): Promise<ServiceWorkerRegistration | null> {
  // The same listener twice counts once.
  navigator.serviceWorker?.addEventListener('message', answerShows)
  try {
    await navigator.serviceWorker?.register('/worker.js', { scope: '/', updateViaCache: 'none' })
    return (await navigator.serviceWorker?.ready) ?? null
  } catch {
    return null
  }
}

async function show(worker: Promise<ServiceWorkerRegistration | null>, title: string, options: NotificationOptions): Promise<void> {
  try {
    const timeout = new Promise<null>((resolve) => setTimeout(() => resolve(null), WORKER_TIMEOUT_MS))
    const registration = await Promise.race([worker, timeout])
    // Android has notifications of service workers only.
    if (registration !== null) return await registration.showNotification(title, options)
  } catch {
    // The worker is not running yet.
  }
  const notice = new Notification(title, options)
  notice.onclick = () => {
    focus()
    notice.close()
  }
}
