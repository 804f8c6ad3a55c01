/** PDFs, drawn by pdf.js. Loaded when one is shown. */
export { PdfView } from './PdfView.tsx'
