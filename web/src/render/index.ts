export { DirectoryView } from './DirectoryView.tsx'
export { FileView } from './FileView.tsx'
export { indexOf } from './directory.ts'
export { playedKind } from './kind.ts'
