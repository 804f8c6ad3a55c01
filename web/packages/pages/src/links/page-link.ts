import { cidOfLink, ContentError, parseCid } from '../content/index.ts'
import { links } from '../messages/links.ts'
import { decodedPart, type PageLink, parsePageAddress } from './addresses.ts'
import { linkedName } from './names.ts'

/** Longest link, as in the terminal. */
const LINK_LENGTH_MAX = 16 * 1024
/** Marks that open before a link in a sentence or a message. */
const OPENING = /^[\s\u200b\u200e\u200f\u2060\u2066-\u2069\ufeff<([{"'“‘„«`「『【《（]+/
/** Marks after a link that no link has: pages escape them. */
const CLOSING = /[\s\u200b\u200e\u200f\u2060\u2066-\u2069\ufeff<>,;:"“”’»`…」』】》）。、，]$/

/**
 * Parses what people have: a link of this server, a CID alone, a path or a URL of IPFS. `null` when it is none of
 * these. The marks around a link in a sentence are not part of it.
 */
export function parsePageLink(link: string, origin: string): PageLink | null {
  if (link.length > LINK_LENGTH_MAX) return null
  const page = namedPage(link, origin)
  if (page === null) return null
  try {
    return { ...page, cid: parseCid(page.cid).text, filename: linkedName(page.filename) }
  } catch (reason) {
    if (reason instanceof ContentError) return null
    throw reason
  }
}

/** The same, but throws an error with a sentence for people when it is none of these. */
export function pageOfLink(link: string, origin: string): PageLink {
  const page = parsePageLink(link, origin)
  if (page !== null) return page
  const other = /^\s*https?:/i.test(link) && URL.canParse(link) ? new URL(link).origin : origin
  if (parsePageLink(link, other) !== null) throw new Error(links('elsewhere', { server: origin, other }))
  cidOfLink(namedPage(link.slice(0, LINK_LENGTH_MAX), origin)?.cid ?? '')
  throw new Error(links('long'))
}

/** The CID is not parsed yet. */
function namedPage(link: string, origin: string): PageLink | null {
  const text = withoutMarks(link)
  return ofIpfs(text) ?? ofServer(text, origin)
}

function ofServer(text: string, origin: string): PageLink | null {
  if (!URL.canParse(text, origin)) return null
  const url = new URL(text, origin)
  return url.origin === origin ? parsePageAddress(url.pathname, url.hash) : null
}

/** A CID, `CID/path`, `/ipfs/CID/path`, `ipfs://CID/path`, or a URL of a gateway: a path or a subdomain. */
function ofIpfs(text: string): PageLink | null {
  const [, before = '', query = '', hash = ''] = /^([^?#]*)(?:\?([^#]*))?(?:#(.*))?/s.exec(text) ?? []
  const place =
    /^https?:\/\/[^/]+\/ipfs\/(.*)$/i.exec(before) ??
    /^https?:\/\/(\w+)\.ipfs\.[^/]+(\/.*)?$/i.exec(before) ??
    /^(?:ipfs|dweb|watchfire):\/*(?:ipfs\/)?(.*)$/i.exec(before) ??
    /^(?:\/ipfs\/)?(\w{20,}\W*(?:\/.*)?)$/.exec(before)
  if (place === null) return null
  const [cid = '', ...names] = `${place[1] ?? ''}${place[2] ?? ''}`.split('/')
  const path = names.join('/').replace(/\/+$/, '')
  const fields = new URLSearchParams(query)
  const filename = fields.get('filename') ?? fields.get('name')
  // The rules for names, keys and marks are those of a link of this server.
  const fragment = new URLSearchParams(hash)
  if (filename !== null) fragment.set('filename', filename)
  if (path !== '') fragment.set('file', decodedPart(path))
  return parsePageAddress(`/p/${cid}`, fragment.toString())
}

function withoutMarks(link: string): string {
  let text = link.replace(OPENING, '')
  while (CLOSING.test(text) || closesMore(text, '(', ')') || closesMore(text, '[', ']') || closesMore(text, '{', '}')) {
    text = text.slice(0, -1)
  }
  return text
}

/** Whether the text ends with a bracket that it has not opened. */
function closesMore(text: string, open: string, close: string): boolean {
  return text.endsWith(close) && text.split(close).length > text.split(open).length
}
