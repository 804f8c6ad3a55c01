/** A panel with details of a page's transfers. Loaded when it is opened. */
export { TransferPanel } from './TransferPanel.tsx'
