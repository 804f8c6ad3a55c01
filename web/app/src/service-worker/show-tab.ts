import type { Client, WorkerScope } from './scope.ts'

/** Tabs that are asked; the rest are ignored. */
const TABS_MAX = 64
/** A browser opens a tab for a click on a notification only within a second. A hidden tab answers within milliseconds. */
const ANSWER_TIMEOUT_MS = 500

/** From the worker to a tab, with a port for the answer: whether the tab shows this address. */
interface ShowsRequest {
  readonly notice: 'shows'
  readonly address: string
}

/**
 * Brings the tab that shows this address to the front, or opens the address where there is none. Each tab is asked, because its
 * `url` is the address with which it was loaded: it stays when the tab goes on to another page of the app.
 */
export async function showTab(clients: WorkerScope['clients'], address: string): Promise<void> {
  const tabs = (await clients.matchAll({ type: 'window', includeUncontrolled: true })).slice(0, TABS_MAX)
  const tab = await findTab(tabs, address)
  await (tab === null ? clients.openWindow(address) : tab.focus())
}

/** The first tab that says that it shows the address; else one that was loaded with it and does not answer. */
function findTab(tabs: readonly Client[], address: string): Promise<Client | null> {
  return new Promise((resolve) => {
    const silent = new Set(tabs)
    const settle = (tab: Client | null) => {
      clearTimeout(timeout)
      resolve(tab)
    }
    const giveUp = () => settle([...silent].find(({ url }) => url === address) ?? null)
    const timeout = setTimeout(giveUp, ANSWER_TIMEOUT_MS)
    if (tabs.length === 0) giveUp()
    for (const tab of tabs) {
      const { port1: port, port2 } = new MessageChannel()
      port.onmessage = ({ data }: MessageEvent<unknown>) => {
        port.close()
        silent.delete(tab)
        if (data === true) settle(tab)
        else if (silent.size === 0) giveUp()
      }
      tab.postMessage({ notice: 'shows', address } satisfies ShowsRequest, [port2])
    }
  })
}

/** Answers the worker's question in a tab. The fragment does not count: it may change while the page stays. */
export function answerShows({ data, ports }: MessageEvent<unknown>): void {
  const { notice, address } = (typeof data === 'object' && data !== null ? data : {}) as Partial<Record<keyof ShowsRequest, unknown>>
  if (notice !== 'shows' || typeof address !== 'string') return
  ports[0]?.postMessage(pageOf(address) === pageOf(location.href))
}

const pageOf = (address: string) => address.split('#', 1)[0]
