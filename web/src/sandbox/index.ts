export { mayHaveScripts } from './document.ts'
export { HtmlView, sealSentence } from './HtmlView.tsx'
