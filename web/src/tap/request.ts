import type { Refusal } from '../words/refusals.ts'
import type { Way } from './words.ts'

/** What a request asks of the worker. */
export type Asked =
  | { readonly kind: 'file'; readonly way: Way; readonly ticket: string; readonly range: string | null }
  | { readonly kind: 'refused'; readonly status: number; readonly why: Refusal }

/** What of a request decides. */
export interface RequestHead {
  readonly url: string
  readonly method: string
  readonly destination: string
  readonly mode: string
  readonly headers: { get(name: string): string | null }
}

/** Addresses of files that a tab gives out: `/stream/<cid>/<ticket>/<name>`, and the same with `save`. */
const ADDRESS = /^\/(stream|save)\/[^/]+\/([\w-]{16,64})\/[^/]*$/

export function fileAddress(way: Way, cid: string, ticket: string, name: string): string {
  return `/${way}/${encodeURIComponent(cid)}/${ticket}/${encodeURIComponent(name)}`
}

/**
 * Reads a request; `null` for one that is none of the worker's business. The bytes of strangers stand behind these
 * addresses: a stream goes into a player and nowhere else, and what is saved is never shown.
 */
export function readRequest(request: RequestHead, origin: string): Asked | null {
  const url = new URL(request.url)
  if (url.origin !== origin || !/^\/(?:stream|save)(?:\/|$)/.test(url.pathname)) return null
  if (request.method !== 'GET') return refused(405, 'get')
  const [, way, ticket] = ADDRESS.exec(url.pathname) ?? []
  if ((way !== 'stream' && way !== 'save') || ticket === undefined) return refused(404, 'nothing')
  if (way === 'stream' && request.destination !== 'video' && request.destination !== 'audio') {
    return refused(403, 'played')
  }
  if (way === 'save' && (request.mode !== 'navigate' || request.destination !== 'iframe')) {
    return refused(403, 'saved')
  }
  return { kind: 'file', way, ticket, range: request.headers.get('range') }
}

function refused(status: number, why: Refusal): Asked {
  return { kind: 'refused', status, why }
}
