export { SpritesPage } from './SpritesPage.tsx'
