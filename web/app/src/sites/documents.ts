import { language } from '../messages/index.ts'
import { sites as text } from '../messages/sites.ts'
import { shownName } from '../names/index.ts'
import { urlPathOf } from './origin.ts'

/** Names that a folder listing shows; the rest are counted. */
export const LISTED_MAX = 500

/** A plain document without references, for URLs at which the site has no page. */
function document(title: string, body: string): string {
  return `<!doctype html><html lang="${language.peek().tag}" dir="${language.peek().direction}"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark"><title>${escaped(title)}</title>
<style>
  :root { color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif }
  body { max-width: 40rem; margin: 3rem auto; padding: 0 1rem; overflow-wrap: anywhere }
  h1 { font-size: 1.3rem } li { margin: .2rem 0 }
</style>
<h1>${escaped(title)}</h1>${body}</html>`
}

export function notFoundDocument(path: string | null): string {
  const what = path === null ? text('absentAddress') : text('absentFile', { path })
  return document(text('absent'), `<p>${escaped(what)}</p><p><a href="/">${escaped(text('toStart'))}</a></p>`)
}

/** Sends the reader to a folder's URL. The shell follows the meta element, because the site's policy blocks redirects. */
export function folderRedirectDocument(urlPath: string): string {
  const at = escaped(urlPath)
  const link = `<p><a href="${at}">${escaped(text('folderHere'))}</a></p>`
  return document(text('folder'), `<meta name="watchfire-redirect" content="${at}">${link}`)
}

/** Lists the names in a folder without an index file, at most `LISTED_MAX` of them. */
export function folderListDocument(path: string, names: readonly string[]): string {
  const items = names.slice(0, LISTED_MAX).map((name) => {
    const href = `${urlPathOf(path === '' ? name.replace(/\/$/, '') : `${path}/${name.replace(/\/$/, '')}`)}`
    return `<li><a href="${escaped(href)}${name.endsWith('/') ? '/' : ''}"><bdi>${escaped(shownName(name))}</bdi></a></li>`
  })
  const more = names.length - LISTED_MAX
  const rest = more > 0 ? `<p>${escaped(text('more', { count: more }))}</p>` : ''
  const up = path === '' ? '' : `<li><a href="..">${escaped(text('above'))}</a></li>`
  return document(path === '' ? text('files') : shownName(path), `<ul>${up}${items.join('')}</ul>${rest}`)
}

/** Text escaped for HTML content and attributes. */
export function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`)
}
