import '../style/pdf.css'
import type { PDFDocumentProxy } from 'pdfjs-dist/legacy/build/pdf.mjs'
import { useEffect, useState } from 'preact/hooks'
import { pdf as text } from '../messages/pdf.ts'
import type { ShownFile } from '../files/reading.ts'
import { openPdf } from './open.ts'
import { PdfPage } from './PdfPage.tsx'
import { useVisiblePages } from './visible-pages.ts'

/** Pages that are shown. The list of more would be higher than browsers draw. */
const PAGES_MAX = 10_000

type Opened = { kind: 'open'; document: PDFDocumentProxy; ratio: number } | { kind: 'failed'; sentence: string } | null

/** A PDF, page below page. A page is read and drawn when it comes into view. */
export function PdfView({ file, name }: { file: ShownFile; name: string }) {
  const opened = usePdf(file)
  if (opened === null) return <p class="fetching" aria-busy="true" />
  if (opened.kind === 'failed') {
    return (
      <p class="notice bad" role="alert">
        {opened.sentence}
      </p>
    )
  }
  return <Pages document={opened.document} ratio={opened.ratio} name={name} />
}

function Pages({ document, ratio, name }: { document: PDFDocumentProxy; ratio: number; name: string }) {
  const { numPages } = document
  const count = Math.min(numPages, PAGES_MAX)
  const { list, span, ratioOf, noteRatio, show } = useVisiblePages(count, ratio)
  return (
    <section class="pdf" aria-label={name === '' ? text('document') : name}>
      <p class="small">{text('pages', { count: numPages })}</p>
      <p class="pdf-print">{text('print')}</p>
      <div ref={list} class="pdf-pages" style={{ paddingTop: `${span.above}px`, paddingBottom: `${span.below}px` }}>
        {Array.from({ length: span.to - span.from }, (_, i) => span.from + i).map((page) => (
          <PdfPage
            key={page}
            document={document}
            number={page + 1}
            ratio={ratioOf(page)}
            onRatio={(ratio) => noteRatio(page, ratio)}
            show={show}
          />
        ))}
      </div>
      {count < numPages && <p class="notice">{text('cut', { count })}</p>}
    </section>
  )
}

function usePdf(file: ShownFile): Opened {
  const [opened, setOpened] = useState<Opened>(null)
  useEffect(() => {
    const stop = new AbortController()
    const fail = (reason: unknown) => {
      if (!stop.signal.aborted) setOpened({ kind: 'failed', sentence: sentenceOf(reason) })
    }
    const open = async () => {
      const document = await openPdf(file, stop.signal, fail)
      const { width, height } = (await document.getPage(1)).getViewport({ scale: 1 })
      if (!stop.signal.aborted) setOpened({ kind: 'open', document, ratio: width / height })
    }
    setOpened(null)
    open().catch(fail)
    return () => stop.abort(new DOMException('the document is not shown any more', 'AbortError'))
  }, [file])
  return opened
}

function sentenceOf(reason: unknown): string {
  if (!(reason instanceof Error)) return text('broken', { reason: String(reason) })
  if (reason.name === 'PasswordException') return text('locked')
  return text('broken', { reason: `${reason.message.replace(/\.$/, '')}.` })
}
