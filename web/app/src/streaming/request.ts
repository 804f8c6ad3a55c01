import type { Refusal } from '../messages/refusals.ts'
import type { Purpose } from './protocol.ts'

/** A request that the worker answers itself. */
export type WorkerRequest =
  | { readonly kind: 'file'; readonly purpose: Purpose; readonly ticket: string; readonly range: string | null }
  | { readonly kind: 'refused'; readonly status: number; readonly why: Refusal }

/** The fields of a request that decide how it is answered. */
export interface RequestHead {
  readonly url: string
  readonly method: string
  readonly destination: string
  readonly mode: string
  readonly headers: { get(name: string): string | null }
}

/** URLs of files that a tab offers: `/stream/<cid>/<ticket>/<name>`, and the same with `save`. */
const PATH = /^\/(stream|save)\/[^/]+\/([\w-]{16,64})\/[^/]*$/

export function fileUrl(purpose: Purpose, cid: string, ticket: string, name: string): string {
  return `/${purpose}/${encodeURIComponent(cid)}/${ticket}/${encodeURIComponent(name)}`
}

/**
 * Parses a request; `null` when the browser should send it to the server. These URLs serve untrusted bytes, so a stream
 * goes to a media or image element only, and a saved file is never displayed.
 */
export function parseRequest(request: RequestHead, origin: string): WorkerRequest | null {
  const url = new URL(request.url)
  if (url.origin !== origin || !/^\/(?:stream|save)(?:\/|$)/.test(url.pathname)) return null
  if (request.method !== 'GET') return refused(405, 'get')
  const [, purpose, ticket] = PATH.exec(url.pathname) ?? []
  if ((purpose !== 'stream' && purpose !== 'save') || ticket === undefined) return refused(404, 'nothing')
  if (purpose === 'stream' && !['video', 'audio', 'image'].includes(request.destination)) {
    return refused(403, 'played')
  }
  if (purpose === 'save' && (request.mode !== 'navigate' || request.destination !== 'iframe')) {
    return refused(403, 'saved')
  }
  return { kind: 'file', purpose, ticket, range: request.headers.get('range') }
}

function refused(status: number, why: Refusal): WorkerRequest {
  return { kind: 'refused', status, why }
}
