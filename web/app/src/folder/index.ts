/** The files of a page. Loaded when a page is a folder. */
export { FolderView, type FolderViewProps } from './FolderView.tsx'
