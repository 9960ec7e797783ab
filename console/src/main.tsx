import { render } from 'preact'
import { App } from './app.tsx'
import './style.css'

const root = document.querySelector('#console')
if (root) render(<App />, root)
