/** The places of the application. Everything the server answers with its shell is one of these. */
export type Route =
  | { kind: 'home' }
  | { kind: 'hearth' }
  /** `key` opens it when it is private. */
  | { kind: 'page'; cid: string; filename: string | null; file: string | null; key: string | null }
  | { kind: 'chat'; room: string }
  | { kind: 'sprites'; plane: string }
  | { kind: 'unknown'; path: string }

const ROOM_LENGTH_MAX = 64
const FILENAME_LENGTH_MAX = 255
/** Longer than any key: what was pasted by mistake is not carried along. */
const KEY_LENGTH_MAX = 64

/**
 * Reads a location. Names of files and keys stay behind the `#`, which browsers do not send: the
 * server learns a CID and nothing else. Whether the CID is one, and whether the directory has the file,
 * is for the page to say.
 */
export function parseRoute(pathname: string, hash: string): Route {
  const path = pathname.length > 1 ? pathname.replace(/\/+$/, '') : pathname
  if (path === '' || path === '/') return { kind: hash === '#burning' ? 'hearth' : 'home' }
  const fragment = new URLSearchParams(hash.replace(/^#/, ''))
  if (path === '/chat') {
    const room = fragment.get('room')?.trim().slice(0, ROOM_LENGTH_MAX)
    return { kind: 'chat', room: room || 'lobby' }
  }
  const plane = /^\/sprites\/([\w.~-]{1,64})$/.exec(path)?.[1]
  if (plane !== undefined) return { kind: 'sprites', plane }
  const cid = /^\/p\/([^/]+)$/.exec(path)?.[1]
  if (cid !== undefined) {
    const filename = filenameOf(fragment.get('filename'))
    const key = fragment.get('key')?.slice(0, KEY_LENGTH_MAX) || null
    return { kind: 'page', cid: decoded(cid), filename, file: fragment.get('file') || null, key }
  }
  return { kind: 'unknown', path }
}

/** Where the pages are that this tab keeps burning. */
export const HEARTH_ADDRESS = '/#burning'

/** The address of a page, without the origin. */
export function pageAddress(cid: string, filename: string | null, key: string | null = null): string {
  return `/p/${encodeURIComponent(cid)}${fragmentOf({ key, filename })}`
}

/** The page that a person means by a link of this server, or by a CID alone; `null` when it is neither. */
export function pageMeant(link: string, origin: string): Extract<Route, { kind: 'page' }> | null {
  const text = link.trim()
  const address = /^\w{20,}$/.test(text) ? `/p/${text}` : text
  if (!URL.canParse(address, origin)) return null
  const url = new URL(address, origin)
  const place = url.origin === origin ? parseRoute(url.pathname, url.hash) : null
  return place?.kind === 'page' ? place : null
}

/** The fragment that opens one file of a page that is a directory. */
export function fileFragment(file: string, key: string | null = null): string {
  return fragmentOf({ key, file })
}

/** Whether it is what `fileFragment` gives. */
export function isFileFragment(fragment: string): boolean {
  return /^#(key=[\w-]*&)?file=/.test(fragment)
}

function fragmentOf(parts: Record<string, string | null>): string {
  const said = Object.entries(parts).flatMap(([name, value]) => (value === null ? [] : [`${name}=${encodeURIComponent(value)}`]))
  return said.length === 0 ? '' : `#${said.join('&')}`
}

/** A fragment with another file in it, and all else as it was. */
export function withFile(fragment: string, file: string): string {
  const rest = fragment.replace(/^#/, '').split('&').filter((part) => part !== '' && !part.startsWith('file='))
  return `#${[...rest, `file=${encodeURIComponent(file)}`].join('&')}`
}

/** The address of a chat room, without the origin. */
export function chatAddress(room: string): string {
  return `/chat#room=${encodeURIComponent(room)}`
}

/** A name somebody else chose: no folders, no control or direction-turning characters. */
function filenameOf(given: string | null): string | null {
  if (given === null) return null
  const name = given
    .replace(/[\p{Cc}\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu, '')
    .replace(/^.*[/\\]/, '')
    .trim()
    .slice(0, FILENAME_LENGTH_MAX)
  return name === '' || name === '.' || name === '..' ? null : name
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}
