import type { PDFDocumentProxy, PDFPageProxy } from 'pdfjs-dist/legacy/build/pdf.mjs'
import { TextLayer } from 'pdfjs-dist/legacy/build/pdf.mjs'
import { useEffect, useRef, useState } from 'preact/hooks'
import { pdf as text } from '../messages/pdf.ts'
import { linkLayer } from './links.ts'

/** Pages are drawn this far above and below the window. */
const MARGIN = '100%'
/** Pixels for each pixel of the layout, at most: more costs memory, and is not seen. */
const SHARPNESS_MAX = 2
/** A page that is wider or higher by more is drawn smaller. */
const RATIO_MAX = 20

interface PdfPageProps {
  document: PDFDocumentProxy
  number: number
  /** Width to height of the first page, until the ratio of this one is known. */
  ratio: number
  onRatio: (ratio: number) => void
  /** Shows another page, from 0. */
  show: (page: number) => void
}

/** One page. It has its pixels only while it is near the window. */
export function PdfPage({ document, number, ratio, onRatio, show }: PdfPageProps) {
  const place = useRef<HTMLElement>(null)
  const isNear = useIsNear(place)
  const [ownRatio, setOwnRatio] = useState(ratio)
  useEffect(() => {
    const holder = place.current
    if (!isNear || holder === null) return
    const stop = new AbortController()
    const noteRatio = (ratio: number) => {
      onRatio(ratio)
      setOwnRatio(ratio)
    }
    draw(document, number, holder, { onRatio: noteRatio, show, signal: stop.signal }).catch(() => undefined)
    return () => {
      stop.abort()
      holder.replaceChildren()
    }
  }, [document, number, isNear])
  return (
    <article
      ref={place}
      class="pdf-page"
      aria-label={text('page', { page: number, count: document.numPages })}
      style={{ aspectRatio: ownRatio }}
    />
  )
}

function useIsNear(place: { readonly current: HTMLElement | null }): boolean {
  const [isNear, setNear] = useState(false)
  useEffect(() => {
    const holder = place.current
    if (holder === null) return
    const watching = new IntersectionObserver((entries) => setNear(entries.at(-1)?.isIntersecting === true), { rootMargin: MARGIN })
    watching.observe(holder)
    return () => watching.disconnect()
  }, [])
  return isNear
}

interface Drawing {
  readonly onRatio: (ratio: number) => void
  readonly show: (page: number) => void
  readonly signal: AbortSignal
}

/** Draws a page once its parts are here, and lays its text and its links over it, so that it can be selected and read aloud. */
async function draw(pdf: PDFDocumentProxy, number: number, holder: HTMLElement, { onRatio, show, signal }: Drawing): Promise<void> {
  const page = await pdf.getPage(number)
  if (signal.aborted) return
  const size = page.getViewport({ scale: 1 })
  // A page of a few bytes can be a million times higher than wide.
  const ratio = Math.min(RATIO_MAX, Math.max(1 / RATIO_MAX, size.width / size.height))
  onRatio(ratio)
  const scale = Math.min(holder.clientWidth / size.width, holder.clientWidth / ratio / size.height)
  const viewport = page.getViewport({ scale: scale * Math.min(devicePixelRatio, SHARPNESS_MAX) })
  const canvas = document.createElement('canvas')
  canvas.width = Math.floor(viewport.width)
  canvas.height = Math.floor(viewport.height)
  canvas.style.width = `${(100 * scale * size.width) / holder.clientWidth}%`
  const drawing = page.render({ canvas, viewport })
  signal.addEventListener('abort', () => drawing.cancel())
  holder.replaceChildren(canvas)
  await drawing.promise
  await addText(page, holder, scale, signal)
  const links = await linkLayer(pdf, page, page.getViewport({ scale }), show)
  if (!signal.aborted && links.childElementCount > 0) holder.append(links)
  page.cleanup()
}

async function addText(page: PDFPageProxy, holder: HTMLElement, scale: number, signal: AbortSignal): Promise<void> {
  const container = document.createElement('div')
  container.className = 'pdf-text'
  container.dir = 'ltr'
  container.style.setProperty('--total-scale-factor', String(scale))
  const layer = new TextLayer({ textContentSource: page.streamTextContent(), container, viewport: page.getViewport({ scale }) })
  signal.addEventListener('abort', () => layer.cancel())
  await layer.render()
  if (!signal.aborted) holder.append(container)
}
