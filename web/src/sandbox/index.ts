export { HtmlView } from './HtmlView.tsx'
