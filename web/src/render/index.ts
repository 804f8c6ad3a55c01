export { DirectoryView } from './DirectoryView.tsx'
export { FileView } from './FileView.tsx'
