/** The page that a link opens. */
export interface PageLink {
  readonly cid: string
  /** As the link says it. `linkedName` makes it a name. */
  readonly filename: string | null
  /** The path of one file of a directory. */
  readonly file: string | null
  /** Opens the page when it is private. */
  readonly key: string | null
}

/** Longer than any key, so that text pasted by mistake is not kept. */
const KEY_LENGTH_MAX = 64

/**
 * Parses the path and the fragment of a page's address; `null` when the path is none of a page. File names and keys are in the fragment,
 * which browsers do not send, so the server sees only a CID. The page checks whether the CID is valid and whether the directory has the
 * file.
 */
export function parsePageAddress(pathname: string, hash: string): PageLink | null {
  const cid = /^\/p\/([^/]+)\/*$/.exec(pathname)?.[1]
  if (cid === undefined) return null
  const fragment = new URLSearchParams(hash.replace(/^#/, ''))
  // A CID and a key have no marks at their end; the sentence has, from which the link was copied.
  const key =
    fragment
      .get('key')
      ?.slice(0, KEY_LENGTH_MAX)
      .replace(/^([\w-]+)[^\w-]+$/, '$1') || null
  return { cid: plainCid(decodedPart(cid)), filename: fragment.get('filename'), file: fragment.get('file') || null, key }
}

/** Without the marks after it, and in small letters when all are capitals, so that both forms are one page of the tab. */
function plainCid(text: string): string {
  const cid = text.replace(/\W+$/, '')
  return /^[BFK][^a-z]*$/.test(cid) ? cid.toLowerCase() : cid
}

/** The address of a page, without the origin. With a file, it opens that file, which has a name already. */
export function pageAddress(cid: string, filename: string | null, key: string | null = null, file: string | null = null): string {
  return `/p/${encodeURIComponent(cid)}${fragmentOf(file === null ? { key, filename } : { key, file })}`
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

/** A part of an address without its escapes; the part itself when they are not valid. */
export function decodedPart(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}
