import type { PageViewport, PDFDocumentProxy, PDFPageProxy } from 'pdfjs-dist/legacy/build/pdf.mjs'
import { openOutside, outsideAddress } from '../files/outside-link.ts'
import { pdf as text } from '../messages/pdf.ts'

/** Links of a page; further ones do nothing. */
const LINKS_MAX = 1000

/** The part of an annotation that is used here. */
interface Annotation {
  readonly subtype: string
  readonly rect: [number, number, number, number]
  readonly url?: string
  readonly dest?: unknown
}

/** Lays the links of a page over it. Those to the outside follow the rules for all links of pages. */
export async function linkLayer(pdf: PDFDocumentProxy, page: PDFPageProxy, viewport: PageViewport, show: (page: number) => void) {
  const layer = document.createElement('div')
  layer.className = 'pdf-links'
  const annotations = (await page.getAnnotations()) as Annotation[]
  for (const annotation of annotations.filter(({ subtype }) => subtype === 'Link').slice(0, LINKS_MAX)) {
    const link = linkOf(annotation, (dest) => void pageOf(pdf, dest).then((found) => found !== null && show(found)))
    if (link === null) continue
    const [x1 = 0, y1 = 0, x2 = 0, y2 = 0] = viewport.convertToViewportRectangle(annotation.rect)
    link.style.left = `${Math.min(x1, x2)}px`
    link.style.top = `${Math.min(y1, y2)}px`
    link.style.width = `${Math.abs(x1 - x2)}px`
    link.style.height = `${Math.abs(y1 - y2)}px`
    layer.append(link)
  }
  return layer
}

function linkOf({ url, dest }: Annotation, follow: (dest: unknown) => void): HTMLElement | null {
  const address = url === undefined ? null : outsideAddress(url)
  if (address !== null) {
    const link = document.createElement('a')
    link.title = address.href
    link.setAttribute('aria-label', address.href)
    openOutside(link, address)
    return link
  }
  if (dest === undefined || dest === null) return null
  const button = document.createElement('button')
  button.type = 'button'
  button.setAttribute('aria-label', text('inside'))
  button.addEventListener('click', () => follow(dest))
  return button
}

/** The page of a destination, from 0. `null` if there is none. */
async function pageOf(pdf: PDFDocumentProxy, dest: unknown): Promise<number | null> {
  try {
    const explicit: unknown = typeof dest === 'string' ? await pdf.getDestination(dest) : dest
    const [target] = Array.isArray(explicit) ? (explicit as unknown[]) : []
    if (typeof target === 'number') return target
    return typeof target === 'object' && target !== null ? await pdf.getPageIndex(target as Parameters<typeof pdf.getPageIndex>[0]) : null
  } catch {
    return null
  }
}
