import { language } from '../words/index.ts'
import { sites as words } from '../words/sites.ts'
import { addressOf } from './origin.ts'

/** Names of a folder that a list of ours shows. */
export const LISTED_MAX = 500

/** What stands where a site has no page of its own: plain words, in a document that needs nothing. */
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

export function absentWords(path: string | null): string {
  const what = path === null ? words('absentAddress') : words('absentFile', { path })
  return document(words('absent'), `<p>${escaped(what)}</p><p><a href="/">${escaped(words('toStart'))}</a></p>`)
}

/** Where a folder is. The shell goes there at once: no redirection passes a site's seal. */
export function elsewhereWords(address: string): string {
  const at = escaped(address)
  const link = `<p><a href="${at}">${escaped(words('folderHere'))}</a></p>`
  return document(words('folder'), `<meta name="watchfire-elsewhere" content="${at}">${link}`)
}

/** The names in a folder without a page of its own; the first of them, when there are very many. */
export function folderWords(path: string, names: readonly string[]): string {
  const items = names.slice(0, LISTED_MAX).map((name) => {
    const address = `${addressOf(path === '' ? name.replace(/\/$/, '') : `${path}/${name.replace(/\/$/, '')}`)}`
    return `<li><a href="${escaped(address)}${name.endsWith('/') ? '/' : ''}"><bdi>${escaped(name)}</bdi></a></li>`
  })
  const more = names.length - LISTED_MAX
  const rest = more > 0 ? `<p>${escaped(words('more', { count: more }))}</p>` : ''
  const up = path === '' ? '' : `<li><a href="..">${escaped(words('above'))}</a></li>`
  return document(path === '' ? words('files') : path, `<ul>${up}${items.join('')}</ul>${rest}`)
}

/** Text as it stands in a document or an attribute. */
export function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`)
}
