/** Longest label of a host name. */
const LABEL_LENGTH_MAX = 63

/**
 * The origin of a page's site; `null` when the server has no site origins or the CID does not fit into a host name.
 *
 * @param key the CID as version 1 in base32
 * @param below the host and port below which the server has sites, `null` when it has none
 * @param protocol the protocol of the app, such as `https:`
 */
export function siteOrigin(key: string, below: string | null, protocol: string): string | null {
  // Host names are case-insensitive, so only base32 works.
  if (below === null || key.length > LABEL_LENGTH_MAX || !/^b[a-z2-7]+$/.test(key)) return null
  return `${protocol}//${key}.${below}`
}

/** The URL path of a file, such as `/a%20b/%C3%A9.html`. */
export function urlPathOf(path: string): string {
  return `/${path.split('/').map(encodeURIComponent).join('/')}`
}

/**
 * The file path for a URL path; `null` when it is not valid. Browsers have resolved `..` already, so an encoded `/`, `.`
 * or `..` is an error.
 */
export function filePathOf(urlPath: string): string | null {
  const names: string[] = []
  for (const part of urlPath.replace(/^\//, '').split('/')) {
    let name: string
    try {
      name = decodeURIComponent(part)
    } catch {
      return null
    }
    if (name.includes('/') || name.includes('\0') || name === '.' || name === '..') return null
    names.push(name)
  }
  return names.join('/')
}
