/**
 * Begins what need not wait for the app's code. This module is a script of its own, a few hundred bytes long, so it runs a round trip
 * earlier than the app. On the home page it begins nothing: all of this follows the first paint there.
 */
import { earlySocket } from './app/early-socket.ts'

export const isHome = location.pathname === '/'
const limits = isHome ? null : fetch('/limits', { signal: AbortSignal.timeout(10_000) })
// A failure is handled when the app asks.
limits?.catch(() => undefined)

/** The transport of the channels. */
export const transport = isHome ? WebSocket : earlySocket(`${location.origin.replace('http', 'ws')}/socket/websocket?vsn=2.0.0`)

/** Fetches the server's limits. */
export const fetchForLimits: typeof fetch = limits === null ? fetch : () => limits

// The build writes the addresses of a page's code into the element of this script.
const code = location.pathname.startsWith('/p/') ? document.querySelector<HTMLElement>('[data-page]')?.dataset['page'] : undefined
code?.split(' ').forEach((href) => {
  document.head.append(Object.assign(document.createElement('link'), { rel: 'modulepreload', href }))
})
