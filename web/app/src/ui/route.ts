import { plainName } from '../names/index.ts'

/** The views of the application, one for each path for which the server sends the app shell. */
export type Route =
  | { kind: 'home' }
  | { kind: 'kept-pages' }
  /** `filename` is what the link says: `linkedName` makes it a name. `key` opens the page when it is private. */
  | { kind: 'page'; cid: string; filename: string | null; file: string | null; key: string | null }
  | { kind: 'chat'; room: string }
  | { kind: 'sprites'; grid: string }
  | { kind: 'unknown'; path: string }

const ROOM_LENGTH_MAX = 64
/** Longer than any key, so that text pasted by mistake is not kept. */
const KEY_LENGTH_MAX = 64

/**
 * Parses a location. File names and keys are in the fragment, which browsers do not send, so the server
 * sees only a CID. The page checks whether the CID is valid and whether the directory has the
 * file.
 */
export function parseRoute(pathname: string, hash: string): Route {
  const path = pathname.length > 1 ? pathname.replace(/\/+$/, '') : pathname
  if (path === '' || path === '/') return { kind: hash === '#kept' ? 'kept-pages' : 'home' }
  const fragment = new URLSearchParams(hash.replace(/^#/, ''))
  if (path === '/chat') {
    // Half an emoji at the end cannot be written into an address, and a server closes the socket that joins such a topic.
    const room = plainName(fragment.get('room') ?? '')
      .trim()
      .slice(0, ROOM_LENGTH_MAX)
      .replace(/[\ud800-\udbff]$/, '')
      .trim()
    return { kind: 'chat', room: room || 'lobby' }
  }
  const grid = /^\/sprites\/([\w.~-]{1,64})$/.exec(path)?.[1]
  if (grid !== undefined) return { kind: 'sprites', grid }
  const cid = /^\/p\/([^/]+)$/.exec(path)?.[1]
  if (cid !== undefined) {
    // A CID and a key have no marks at their end; the sentence has, from which the link was copied.
    const key =
      fragment
        .get('key')
        ?.slice(0, KEY_LENGTH_MAX)
        .replace(/^([\w-]+)[^\w-]+$/, '$1') || null
    return { kind: 'page', cid: plainCid(decoded(cid)), filename: fragment.get('filename'), file: fragment.get('file') || null, key }
  }
  return { kind: 'unknown', path }
}

/** Without the marks after it, and in small letters when all are capitals, so that both forms are one page of the tab. */
function plainCid(text: string): string {
  const cid = text.replace(/\W+$/, '')
  return /^[BFK][^a-z]*$/.test(cid) ? cid.toLowerCase() : cid
}

/** The address of the pages that this tab keeps sharing. */
export const KEPT_PAGES_ADDRESS = '/#kept'

/** The address of a page, without the origin. */
export function pageAddress(cid: string, filename: string | null, key: string | null = null): string {
  return `/p/${encodeURIComponent(cid)}${fragmentOf({ key, filename })}`
}

/** The fragment that opens one file of a directory, perhaps at a part of it. */
export function fileFragment(file: string, key: string | null = null, part: string | null = null): string {
  return fragmentOf({ key, file, part })
}

/** Whether it is a fragment made by `fileFragment`. */
export function isFileFragment(fragment: string): boolean {
  return /^#(key=[\w-]*&)?file=/.test(fragment)
}

function fragmentOf(parts: Record<string, string | null>): string {
  const fields = Object.entries(parts).flatMap(([name, value]) => (value === null ? [] : [`${name}=${encodeURIComponent(value)}`]))
  return fields.length === 0 ? '' : `#${fields.join('&')}`
}

/** Replaces the file in a fragment and keeps the rest. */
export function withFile(fragment: string, file: string): string {
  const rest = fragment
    .replace(/^#/, '')
    .split('&')
    .filter((part) => part !== '' && !/^(?:file|part)=/.test(part))
  return `#${[...rest, `file=${encodeURIComponent(file)}`].join('&')}`
}

/** The address of a chat room, without the origin. */
export function chatAddress(room: string): string {
  return `/chat#room=${encodeURIComponent(room)}`
}

/** A part of an address without its escapes; the part itself when they are not valid. */
export function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}
