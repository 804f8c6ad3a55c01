import { kindOf } from '../render/kind.ts'

/** Types that a browser needs for what it loads into a page, beyond those that we show ourselves. */
const TYPES: Record<string, string> = {
  css: 'text/css', html: 'text/html', htm: 'text/html', xhtml: 'application/xhtml+xml',
  js: 'text/javascript', mjs: 'text/javascript', json: 'application/json', map: 'application/json',
  xml: 'application/xml', wasm: 'application/wasm', vtt: 'text/vtt', csv: 'text/csv',
  webmanifest: 'application/manifest+json', woff: 'font/woff', woff2: 'font/woff2', ttf: 'font/ttf', otf: 'font/otf',
  pdf: 'application/pdf',
}

/** Text without a word on its letters is read as what it mostly is. */
const UTF8 = '; charset=utf-8'

/** The media type to send a file with, by its name, or by its first bytes when that says nothing. */
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
