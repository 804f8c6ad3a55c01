export { percentOf, percentText, sizeText } from '../words/index.ts'
