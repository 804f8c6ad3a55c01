import { kindOf } from '../render/kind.ts'

/** Types that a browser requires for the resources of a page, besides those that the app itself shows. */
const TYPES: Record<string, string> = {
  css: 'text/css', html: 'text/html', htm: 'text/html', xhtml: 'application/xhtml+xml',
  js: 'text/javascript', mjs: 'text/javascript', json: 'application/json', map: 'application/json',
  xml: 'application/xml', wasm: 'application/wasm', vtt: 'text/vtt', csv: 'text/csv',
  webmanifest: 'application/manifest+json', woff: 'font/woff', woff2: 'font/woff2', ttf: 'font/ttf', otf: 'font/otf',
  pdf: 'application/pdf',
}

/** Text without a declared encoding is served as UTF-8, the most common one. */
const UTF8 = '; charset=utf-8'

/** The media type of a file, by its name, or by its first bytes when the name does not decide. */
export function mediaType(path: string, head: Uint8Array): string {
  const extension = /\.([a-z0-9]+)$/i.exec(path)?.[1]?.toLowerCase() ?? ''
  const known = Object.hasOwn(TYPES, extension) ? TYPES[extension] : undefined
  if (known !== undefined) return known.startsWith('text/') ? known + UTF8 : known
  const kind = kindOf(path, head)
  switch (kind.kind) {
    case 'html':
      return `text/html${UTF8}`
    case 'text':
    case 'markdown':
    case 'code':
      return `text/plain${UTF8}`
    case 'picture':
    case 'audio':
    case 'video':
      return kind.mime
    case 'pdf':
    case 'other':
      return 'application/octet-stream'
  }
}
