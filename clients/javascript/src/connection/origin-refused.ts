/** Longest wait for the server's answer, in milliseconds. */
const ANSWER_MS = 5_000

/**
 * Asks the server whether it refuses this page's origin. A browser hides the HTTP status of a failed WebSocket
 * handshake, but not that of a long poll: one without a token opens no session, and its answer is `{"status":403}` if
 * the origin is refused. No answer, and every other answer, is `false`. Never rejects.
 */
export async function isOriginRefused(endPoint: string, fetch: typeof globalThis.fetch, signal: AbortSignal): Promise<boolean> {
  try {
    // A WebSocket address, such as `ws://example.org/socket`, is a valid end point too.
    const response = await fetch(`${endPoint.replace(/^ws/, 'http')}/longpoll?vsn=2.0.0`, {
      // Browsers send `Origin` with every POST. A GET of the same origin has none.
      method: 'POST',
      signal: AbortSignal.any([signal, AbortSignal.timeout(ANSWER_MS)]),
    })
    return (Object(await response.json()) as { status?: unknown }).status === 403
  } catch {
    return false
  }
}
