import type { PDFDocumentProxy, PDFPageProxy } from 'pdfjs-dist/legacy/build/pdf.mjs'
import { TextLayer } from 'pdfjs-dist/legacy/build/pdf.mjs'
import { useEffect, useRef, useState } from 'preact/hooks'
import { pdf as text } from '../messages/pdf.ts'

/** Pages are drawn this far above and below the window. */
const MARGIN = '100%'
/** Pixels for each pixel of the layout, at most: more costs memory, and is not seen. */
const SHARPNESS_MAX = 2

interface PdfPageProps {
  document: PDFDocumentProxy
  number: number
  /** Width to height of the first page, until the ratio of this one is known. */
  ratio: number
}

/** One page. It has its pixels only while it is near the window. */
export function PdfPage({ document, number, ratio }: PdfPageProps) {
  const place = useRef<HTMLElement>(null)
  const isNear = useIsNear(place)
  const [ownRatio, setOwnRatio] = useState(ratio)
  useEffect(() => {
    const holder = place.current
    if (!isNear || holder === null) return
    const stop = new AbortController()
    draw(document, number, holder, setOwnRatio, stop.signal).catch(() => undefined)
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

/** Draws a page once its parts are here, and lays its text over it, so that it can be selected and read aloud. */
async function draw(
  pdf: PDFDocumentProxy,
  number: number,
  holder: HTMLElement,
  onRatio: (ratio: number) => void,
  signal: AbortSignal,
): Promise<void> {
  const page = await pdf.getPage(number)
  if (signal.aborted) return
  const size = page.getViewport({ scale: 1 })
  onRatio(size.width / size.height)
  const scale = holder.clientWidth / size.width
  const viewport = page.getViewport({ scale: scale * Math.min(devicePixelRatio, SHARPNESS_MAX) })
  const canvas = document.createElement('canvas')
  canvas.width = Math.floor(viewport.width)
  canvas.height = Math.floor(viewport.height)
  const drawing = page.render({ canvas, viewport })
  signal.addEventListener('abort', () => drawing.cancel())
  holder.replaceChildren(canvas)
  await drawing.promise
  await addText(page, holder, scale, signal)
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
