import { effect } from '@preact/signals'
import type { PageSession } from './site.ts'

/** Whether the browser has notifications, and the person has not refused them here. */
export function canNotify(): boolean {
  return typeof Notification === 'function' && Notification.permission !== 'denied'
}

/**
 * Shows a notification as soon as somebody has the page again, while this tab is open. Returns whether the person allows it. The
 * browser asks, so this must be called for a click.
 */
export async function notifyWhenBack(session: Pick<PageSession, 'cid' | 'state'>, title: string, body: string): Promise<boolean> {
  if ((await Notification.requestPermission()) !== 'granted') return false
  const stop = effect(() => {
    const { kind } = session.state.value
    if (kind === 'joining' || kind === 'waiting') return
    if (kind !== 'refused') void show(title, body, session.cid)
    // The effect may run before `stop` is assigned.
    queueMicrotask(() => stop())
  })
  return true
}

async function show(title: string, body: string, tag: string): Promise<void> {
  const options = { body, tag, icon: '/icon-192.png' }
  try {
    const notice = new Notification(title, options)
    notice.onclick = () => {
      focus()
      notice.close()
    }
  } catch {
    // Android has notifications of service workers only; the title of the tab changes in any case.
    const registration = await navigator.serviceWorker?.getRegistration()
    await registration?.showNotification(title, options)
  }
}
