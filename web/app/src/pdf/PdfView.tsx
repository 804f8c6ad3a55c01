import '../style/pdf.css'
import type { PDFDocumentProxy } from 'pdfjs-dist/legacy/build/pdf.mjs'
import { useEffect, useState } from 'preact/hooks'
import { pdf as text } from '../messages/pdf.ts'
import type { ShownFile } from '../files/reading.ts'
import { openPdf } from './open.ts'
import { PdfPage } from './PdfPage.tsx'

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
  const { document, ratio } = opened
  return (
    <section class="pdf" aria-label={name === '' ? text('document') : name}>
      <p class="small">{text('pages', { count: document.numPages })}</p>
      {Array.from({ length: document.numPages }, (_, i) => (
        <PdfPage key={i} document={document} number={i + 1} ratio={ratio} />
      ))}
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
