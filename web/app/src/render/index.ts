export { DirectoryView } from './DirectoryView.tsx'
export { FileContent, FileView } from './FileView.tsx'
export { indexOf } from '../files/directory.ts'
export { mediaKind } from '../files/kind.ts'
