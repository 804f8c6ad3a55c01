import type { Listing } from '@watchfire/pages'
import { declaringOf, HTML_BYTES_MAX, kindOf, showStill, SNIFFED_BYTES, textIn } from '@watchfire/pages/files'
import { plainName, shownName, sizeText } from '@watchfire/pages/messages'
import { text } from './messages/element.ts'

/** The most bytes of a text that are shown. The link to the server's own view shows more. */
const SHOWN_BYTES_MAX = 1 << 20
/** The most files that are listed. The link to the server's own view shows all. */
const LISTED_FILES_MAX = 500

/** The type keeps a browser from showing a file on this site's origin. */
const SAVED_TYPE = 'application/octet-stream'
const SVG_TYPE = 'image/svg+xml'

/** A page as `render` needs it. */
export interface Readable {
  listing(): Listing | null
  file(path: string): Promise<Blob>
}

/** The content of a page for a document. `dispose` frees what it uses. */
export interface Rendered {
  readonly node: HTMLElement
  dispose(): void
}

/** `address`: the page on its server. */
export async function render(page: Readable, address: string): Promise<Rendered> {
  const files = page.listing()?.files ?? []
  const [only] = files
  if (files.length === 1 && only !== undefined) return renderFile(await page.file(only.path), only.path, address)
  const list = document.createElement('ul')
  const urls: string[] = []
  for (const { path, size } of files.slice(0, LISTED_FILES_MAX)) {
    const row = list.appendChild(document.createElement('li'))
    const button = row.appendChild(document.createElement('button'))
    button.type = 'button'
    button.textContent = text('save', { name: shownName(path), size: sizeText(size ?? 0) })
    button.addEventListener('click', () => {
      // It fails when the page is closed; then the list is gone too.
      page.file(path).then(
        (blob) => save(blob, path, urls),
        () => undefined,
      )
    })
  }
  list.appendChild(document.createElement('li')).append(serverLink(address))
  const dispose = () => {
    for (const url of urls) URL.revokeObjectURL(url)
  }
  return { node: list, dispose }
}

/** Shows a text, whatever it begins with. */
export async function renderText(blob: Blob, address: string, path = ''): Promise<Rendered> {
  const block = document.createElement('pre')
  block.dir = 'auto'
  block.textContent = await textIn(blob, declaringOf(path), SHOWN_BYTES_MAX)
  if (blob.size > SHOWN_BYTES_MAX) block.append('…\n', serverLink(address))
  return lasting(block)
}

async function renderFile(blob: Blob, path: string, address: string): Promise<Rendered> {
  if (blob.size === 0) return lasting(Object.assign(document.createElement('p'), { textContent: text('empty') }))
  const kind = kindOf(path, new Uint8Array(await blob.slice(0, SNIFFED_BYTES).arrayBuffer()))
  switch (kind.kind) {
    case 'text':
    case 'markdown':
    case 'code':
      return renderText(blob, address, path)
    case 'html':
      return blob.size <= HTML_BYTES_MAX ? renderHtml(blob, address, path) : renderText(blob, address, path)
    case 'picture':
      return renderPicture(blob, kind.mime, path)
    case 'audio':
    case 'video': {
      const player = document.createElement(kind.kind)
      player.controls = true
      return atAddress(blob, kind.mime, (url) => Object.assign(player, { src: url }))
    }
    case 'pdf':
    case 'other':
      return atAddress(blob, SAVED_TYPE, (url) => saveLink(url, path, blob.size))
  }
}

async function renderHtml(blob: Blob, address: string, path: string): Promise<Rendered> {
  const frame = document.createElement('iframe')
  frame.title = text('frame')
  try {
    showStill(frame, await textIn(blob, 'html'))
  } catch {
    return renderText(blob, address, path)
  }
  return lasting(frame)
}

async function renderPicture(blob: Blob, type: string, path: string): Promise<Rendered> {
  const show = (url: string) => Object.assign(document.createElement('img'), { src: url, alt: shownName(path) })
  // A browser can open a picture in a tab. There, the scripts of a blob of SVG would run on this site's origin.
  return type === SVG_TYPE ? lasting(show(await dataUrl(blob, type))) : atAddress(blob, type, show)
}

const lasting = (node: HTMLElement): Rendered => ({ node, dispose: () => undefined })

function atAddress(blob: Blob, type: string, show: (url: string) => HTMLElement): Rendered {
  const url = URL.createObjectURL(blob.slice(0, blob.size, type))
  return { node: show(url), dispose: () => URL.revokeObjectURL(url) }
}

function dataUrl(blob: Blob, type: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader()
    reader.onload = () => resolve(String(reader.result))
    reader.onerror = () => reject(reader.error)
    reader.readAsDataURL(blob.slice(0, blob.size, type))
  })
}

function saveLink(url: string, path: string, bytes: number): HTMLAnchorElement {
  const link = document.createElement('a')
  link.href = url
  const name = path.split('/').pop() || text('nameless')
  link.download = plainName(name)
  link.textContent = text('save', { name: shownName(name), size: sizeText(bytes) })
  return link
}

/** The page on its server. */
export function serverLink(address: string): HTMLAnchorElement {
  const link = document.createElement('a')
  link.href = address
  link.textContent = text('open', { host: new URL(address).host })
  return link
}

function save(blob: Blob, path: string, urls: string[]): void {
  const url = URL.createObjectURL(blob.slice(0, blob.size, SAVED_TYPE))
  urls.push(url)
  saveLink(url, path, blob.size).click()
}
