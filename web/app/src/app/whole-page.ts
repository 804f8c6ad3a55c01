/** Everything that a page of the swarm needs. As one module it is one file, and not one more for each that is imported dynamically. */
export { PageView } from '../pages/PageView.tsx'
export * from './swarm-pages.ts'
