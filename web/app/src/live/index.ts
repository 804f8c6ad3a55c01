/** The view of a live page, and the form with which its publisher adds to it. */
export { LiveView } from './LiveView.tsx'
