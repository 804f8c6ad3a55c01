import { getDocument, GlobalWorkerOptions, type PDFDocumentProxy } from 'pdfjs-dist/legacy/build/pdf.mjs'
import workerAddress from 'pdfjs-dist/legacy/build/pdf.worker.min.mjs?url'
import type { ShownFile } from '../files/reading.ts'
import { PartsOfFile } from './reading.ts'

/** Bytes that are read at a time. A block of the page has 16 of them. */
const PART_BYTES = 64 << 10
/** A picture with more pixels is left out. A few bytes can decode to gigabytes. */
const PICTURE_PIXELS_MAX = 64_000_000
/** Bytes of a page that is drawn, at most. */
const CANVAS_BYTES_MAX = 128 << 20

GlobalWorkerOptions.workerSrc = workerAddress

/**
 * Opens a PDF as soon as the parts that list its pages are here. Its scripts and forms are not run, and nothing outside of
 * the file is loaded.
 */
export async function openPdf(file: ShownFile, signal: AbortSignal, onFailed: (reason: unknown) => void): Promise<PDFDocumentProxy> {
  const range = await PartsOfFile.of(file, signal, onFailed)
  const task = getDocument({
    range,
    rangeChunkSize: PART_BYTES,
    // Only what is looked at is read, so that a PDF of gigabytes is never in memory as a whole.
    disableAutoFetch: true,
    disableStream: true,
    isEvalSupported: false,
    enableXfa: false,
    wasmUrl: '/pdf/',
    standardFontDataUrl: '/pdf/fonts/',
    cMapUrl: '/pdf/cmaps/',
    cMapPacked: true,
    useWorkerFetch: true,
    maxImageSize: PICTURE_PIXELS_MAX,
    canvasMaxAreaInBytes: CANVAS_BYTES_MAX,
    verbosity: 0,
  })
  signal.addEventListener('abort', () => void task.destroy())
  return task.promise
}
