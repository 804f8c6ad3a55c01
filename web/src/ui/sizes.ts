export { percentOf, percentText, sizeText } from '../messages/index.ts'
