/** Everything that turns a draft into a page, and a drop into files. The first view does not need it. */
export { bundle } from './bundle.ts'
export { readDrop } from './dropped-files.ts'
