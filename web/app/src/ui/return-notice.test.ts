import { signal } from '@preact/signals'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import type { PageState } from './site.ts'
import { canNotify, notifyWhenBack } from './return-notice.ts'

const ADDRESS = 'https://fire.example/p/a'

beforeEach(() => void vi.stubGlobal('location', { href: ADDRESS }))
afterEach(() => {
  vi.unstubAllGlobals()
  vi.useRealTimers()
})

function notifications(answer: NotificationPermission) {
  const shown: string[] = []
  class Shown {
    static permission = answer
    static requestPermission = () => Promise.resolve(answer)
    constructor(title: string) {
      shown.push(title)
    }
  }
  vi.stubGlobal('Notification', Shown)
  return shown
}

it('a notification says once that the page is back', async () => {
  const shown = notifications('granted')
  const state = signal<PageState>({ kind: 'waiting', bytes: 0, total: null })
  expect(await notifyWhenBack({ cid: 'a', state }, 'It is back', '')).toBe(true)
  state.value = { kind: 'joining' }
  expect(shown).toEqual([])
  state.value = { kind: 'loading', bytes: 0, total: 9, peers: 1, direct: 0, nodes: 0 }
  await Promise.resolve()
  state.value = { kind: 'waiting', bytes: 1, total: 9 }
  state.value = { kind: 'loading', bytes: 1, total: 9, peers: 1, direct: 0, nodes: 0 }
  await vi.waitFor(() => expect(shown).toEqual(['It is back']))
})

it('the service worker shows the notification, with the address of its tab', async () => {
  const shown = notifications('granted')
  const byWorker: unknown[] = []
  const registration = { showNotification: async (title: string, { data }: NotificationOptions) => void byWorker.push([title, data]) }
  // The worker is active a little after its registration, and shows nothing before.
  let activate = () => {}
  const ready = new Promise((resolve) => (activate = () => resolve(registration)))
  vi.stubGlobal('navigator', { serviceWorker: { register: () => Promise.resolve({}), ready, addEventListener: () => {} } })
  const state = signal<PageState>({ kind: 'waiting', bytes: 0, total: null })
  await notifyWhenBack({ cid: 'a', state }, 'It is back', '')
  state.value = { kind: 'held', content: { kind: 'directory', files: [], links: 0 } }
  activate()
  await vi.waitFor(() => expect(byWorker).toEqual([['It is back', ADDRESS]]))
  expect(shown).toEqual([])
})

it('the tab shows the notification itself when the browser never registers the worker', async () => {
  vi.useFakeTimers()
  const shown = notifications('granted')
  vi.stubGlobal('navigator', { serviceWorker: { register: () => new Promise(() => {}), addEventListener: () => {} } })
  const state = signal<PageState>({ kind: 'held', content: { kind: 'directory', files: [], links: 0 } })
  await notifyWhenBack({ cid: 'a', state }, 'It is back', '')
  await vi.advanceTimersByTimeAsync(3000)
  expect(shown).toEqual(['It is back'])
})

it('no notification is offered or shown to a person who refused them', async () => {
  const shown = notifications('denied')
  expect(canNotify()).toBe(false)
  const state = signal<PageState>({ kind: 'held', content: { kind: 'directory', files: [], links: 0 } })
  expect(await notifyWhenBack({ cid: 'a', state }, 'It is back', '')).toBe(false)
  expect(shown).toEqual([])
})
